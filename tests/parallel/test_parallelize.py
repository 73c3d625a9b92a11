"""hw.parallelize on 2 and 4 processes: see `equal_to_one` and `costs` for what is checked."""

import pytest
from processes import run_checks

COSTS = [f"costs.{name}" for name in ("peak_bytes", "sent_bytes", "sent_bytes_of_points", "fewer_than_transposes")]
CHECKS = {
    2: [f"equal_to_one.{name}" for name in (
        "one_axis", "two_axes", "three_axes", "modes_and_grids", "norms", "padding", "factorized", "sphere",
        "latent_grid", "half_precision", "state_dicts", "second_derivatives", "what_cannot_be_says_so",
    )] + COSTS,
    4: [f"equal_to_one.{name}" for name in (
        "one_axis", "three_axes", "several_sharded_axes", "factorized", "sphere", "latent_grid_along_two_axes",
        "state_dicts", "shards_are_shares",
    )] + [*COSTS, "costs.the_fft_is_one"],
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Both spawns, each when it is first asked for."""
    found = {}

    def of(processes):
        if processes not in found:
            folder = tmp_path_factory.mktemp(f"ranks-{processes}")
            found[processes] = run_checks(CHECKS[processes], processes, folder)
        return found[processes]

    return of


@pytest.mark.parametrize(("processes", "check"), [(n, check) for n, checks in CHECKS.items() for check in checks])
def test_pieces_are_those_of_one_process(outcomes, processes, check):
    for rank, outcome in enumerate(outcomes(processes)[check]):
        assert outcome == "passed", f"process {rank}: {outcome}"
