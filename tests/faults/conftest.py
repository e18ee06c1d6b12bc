"""Jails for the tests of faults."""

import shutil
import sys
import time

import pytest
from commands import held, make_inputs
from jail import Jailer, Refused, require_done


@pytest.fixture(scope="session")
def jailer():
    if not sys.platform.startswith("linux"):
        pytest.skip("the jail is made of what Linux has")
    try:
        one = Jailer()
    except Refused as why:
        pytest.skip(str(why))
    yield one
    one.close()


@pytest.fixture
def jail(jailer):
    one = jailer.jail()
    yield one
    one.remove()


@pytest.fixture(scope="session")
def inputs(jailer):
    return make_inputs(jailer)


@pytest.fixture
def furnished(jail, inputs):
    """A jail whose working directory has a folder `data` with inputs for every command."""
    shutil.copytree(inputs, jail.work / "data")
    return jail


@pytest.fixture(scope="session")
def undisturbed(jailer, inputs):
    """What each command writes, how often it changes the file system and how long it takes if nobody stops it."""
    known = {}

    def run(command):
        if command not in known:
            jail = jailer.jail()
            shutil.copytree(inputs, jail.work / "data")
            began = time.perf_counter()
            done = jail.run(*command(f"out{command.ending}"), outputs=command.outputs(f"out{command.ending}"))
            require_done(done)
            known[command] = held(jail, command), done.steps, time.perf_counter() - began
            jail.remove()
        return known[command]

    return run
