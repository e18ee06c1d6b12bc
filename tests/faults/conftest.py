"""Jails for the tests of faults."""

import pytest
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
    return jailer.jail()
