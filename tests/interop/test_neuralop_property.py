"""from_neuralop equals or refuses in one line, never anything between: over random configurations of all options."""

import warnings
from collections import Counter

import pytest
import torch
from drawn_peers import draw

from halfwave.interop import from_neuralop

DRAWN = 260
TOLERANCE = 1e-5


def _answers(peer, x, call):
    """What the peer says in each mode, without dropout in training; None where it fails itself."""
    answers = {}
    for mode in ("eval", "train"):
        if mode == "train" and any(isinstance(m, torch.nn.Dropout) for m in peer.modules()):
            continue
        try:
            with torch.no_grad():
                answers[mode] = peer.train(mode == "train")(x, **call)
        except Exception:
            return None
    return answers


def _outcome(source, answers, x, call):
    """ "equal", "refused", or what is between."""
    try:
        ours = from_neuralop(source)
    except ValueError as error:
        return "refused" if "\n" not in str(error) else f"a refusal of several lines: {error}"
    for mode, expected in answers.items():
        with torch.no_grad():
            found = ours.train(mode == "train")(x, **call)
        if found.shape != expected.shape:
            return f"{tuple(found.shape)} and not {tuple(expected.shape)} in {mode}"
        error = ((found - expected).norm() / expected.norm()).item()
        if not error <= TOLERANCE:
            return f"{error:.1e} off in {mode}"
    return "equal"


def _judge(seed):
    """Outcomes for a configuration, given as the model and as its state dict; none where neuraloperator fails."""
    drawn = draw(seed)
    try:
        peer = drawn.build()
    except Exception:
        return []
    x = drawn.input()
    answers = _answers(peer, x, drawn.call)
    if answers is None:
        return []
    # A state dict has neither hooks nor modes that were lowered since.
    sources = [peer] if drawn.hooked or drawn.lowered else [peer, peer.state_dict()]
    return [_outcome(source, answers, x, drawn.call) for source in sources]


@pytest.mark.filterwarnings("ignore")
def test_every_drawn_configuration_is_equal_or_refused(capsys):
    counts, between, ran = Counter(), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(DRAWN):
            outcomes = _judge(seed)
            ran += bool(outcomes)
            counts.update(outcome for outcome in outcomes if outcome in ("equal", "refused"))
            between += [f"{draw(seed)}: {o}" for o in outcomes if o not in ("equal", "refused")]
    with capsys.disabled():
        print(f"\n{ran} configurations that run:", dict(counts), f"and {len(between)} else")
    assert not between, "\n".join(between)
    assert ran >= 200
    assert counts["equal"] > 2 * counts["refused"]
