"""The public store suite: a store that passes it can be used by the engine.

A store author gives three fixtures (see `stepwell.conformance.case`) and one class:

    from stepwell.conformance.suite import StoreSuite

    class TestMyStore(StoreSuite): ...
"""

from pathlib import Path

import pytest

# Must come before the suites are imported, or their assertions would fail without saying what was compared.
pytest.register_assert_rewrite(
    *(f"stepwell.conformance.{path.stem}" for path in Path(__file__).parent.glob("[a-z]*.py"))
)
