"""The public store suite: a store that passes it can be used by the engine.

A store author provides three fixtures (see `stepwell.conformance.case`) and one class:

    from stepwell.conformance.suite import StoreSuite

    class TestMyStore(StoreSuite): ...
"""

from pathlib import Path

import pytest

# Before the suites are imported: otherwise their failing assertions would not show what was compared.
pytest.register_assert_rewrite(
    *(f"stepwell.conformance.{path.stem}" for path in Path(__file__).parent.glob("[a-z]*.py"))
)
