"""Where the test data is: the folders that ANEMONE_DATA lists, separated by ':'; without it ../shared/data and
../shared/data_next beside the sources. As tests/support/data.cpp has it."""

import os


def data_roots():
    given = os.environ.get("ANEMONE_DATA")
    if given is not None:
        return [root for root in given.split(":") if root]
    shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")
    return [os.path.join(shared, "data"), os.path.join(shared, "data_next")]
