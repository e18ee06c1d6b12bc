import pickle

import pytest

from garnet.errors import GraphError, MissingExtra


@pytest.mark.parametrize("error", [GraphError("it is empty."), MissingExtra("pyarrow", "A table", "pygarnet[parquet]")])
def test_an_error_arrives_from_another_process_as_it_was_raised(error):
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert str(there) == str(error)
