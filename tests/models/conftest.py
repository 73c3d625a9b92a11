"""Fields of tests are small and models are not: here every field is cut into slices, as a large one is."""

import pytest

from halfwave.models import pointwise


@pytest.fixture(autouse=True)
def _as_large_fields(monkeypatch):
    monkeypatch.setattr(pointwise, "WHOLE_ELEMENTS", 0)
