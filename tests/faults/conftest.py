"""Jails for the tests of faults."""

import shutil

import pytest
from commands import make_inputs
from jail import Jailer, Refused


@pytest.fixture(scope="session")
def jailer():
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
