"""Each planted fault in pool, scheduler and request is found by the histories of test_schedules.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import schedules
from play import REAL

SPEC = importlib.util.spec_from_file_location("engine_faults", Path(__file__).parent / "mutants" / "engine.py")
planted = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(planted)


def test_the_loaded_modules_are_the_engine_s() -> None:
    """As they are, beside the real ones: no fault is found, so one that is found is the planted one."""
    loaded = planted.modules()
    assert loaded.scheduler.BlockPool is loaded.block_pool.BlockPool is not REAL.block_pool.BlockPool
    assert schedules.explore(loaded, 300)["histories"] >= 300


def test_at_least_twenty_with_names_of_their_own() -> None:
    names = [fault.name for fault in planted.FAULTS]
    assert len(set(names)) == len(names) >= 20


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda fault: fault.name)
def test_found(fault) -> None:
    modules = planted.modules(fault)
    with pytest.raises((AssertionError, ValueError, LookupError, AttributeError)) as caught:
        schedules.explore(modules)
    print(f"{fault.name}: {type(caught.value).__name__}: {str(caught.value).splitlines()[0] if str(caught.value) else ''}")


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        planted.modules(planted.pool("nothing", ("no such line", "")))
