"""The page: an operator that runs in a browser, in one file, beside the true solution of what a reader draws."""

from halfwave.export.page.building import write_page
from halfwave.export.page.familiarity import features

__all__ = ["features", "write_page"]
