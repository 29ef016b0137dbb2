"""The policy library of a trained policy, and the trade-off of its mixtures."""

from pathlib import Path

import acrl
import numpy as np
import pytest


@pytest.fixture
def policy(data: Path) -> acrl.Policy:
    return acrl.Policy.load(data / "wireless.safetensors")


def test_library_has_the_averages_under_fixed_weights(policy: acrl.Policy) -> None:
    names = ["sum_rate", *(r.name for r in policy.requirements)]
    assert policy.library
    for entry in policy.library:
        assert list(entry.weights) == list(entry.averages) == list(entry.standard_errors) == names
        assert min(entry.weights.values()) >= 0
        assert min(entry.standard_errors.values()) >= 0
        assert entry.averages["power"] >= 0, "in the user's sign"
    spent = [entry.averages["power"] for entry in policy.library]
    assert max(spent) > min(spent)


def test_tradeoff_is_concave_and_prices_are_its_slopes(policy: acrl.Policy) -> None:
    curve = policy.tradeoff("power")
    assert len(curve) == 50
    assert curve.bounds.shape == curve.values.shape == curve.prices.shape
    assert curve.shares.shape == (50, len(policy.library))
    met = ~np.isnan(curve.values)
    assert met.any()
    values, bounds, prices = curve.values[met], curve.bounds[met], curve.prices[met]
    assert (np.diff(values) >= -1e-9).all(), "more power allows for a higher rate"
    assert (np.diff(prices) <= 1e-9).all()
    slopes = np.diff(values) / np.diff(bounds)
    assert (slopes <= prices[:-1] + 1e-7).all()
    assert (slopes >= prices[1:] - 1e-7).all()
    assert curve.shares[met].sum(axis=1) == pytest.approx(1)
    rate = [entry.averages["sum_rate"] for entry in curve.entries]
    assert curve.shares[met] @ rate == pytest.approx(values)


def test_tradeoff_respects_the_other_bounds(policy: acrl.Policy) -> None:
    free = [acrl.at_least(r.name, -1) for r in policy.requirements if r.direction == "at_least"]
    bounds = [0.1, 1.0, 1000.0]
    tight, loose = policy.tradeoff("power", bounds), policy.tradeoff("power", bounds, requirements=free)
    assert np.nan_to_num(tight.values, nan=-np.inf)[-1] <= loose.values[-1] + 1e-9
    best = max(entry.averages["sum_rate"] for entry in policy.library)
    assert loose.values[-1] == pytest.approx(best)
    assert loose.prices[-1] == 0
    assert [r.bound for r in loose.requirements] == [-1, -1, -1]
    out_of_reach = policy.tradeoff("power", [-5.0])
    assert np.isnan(out_of_reach.values).all()
    assert np.isnan(out_of_reach.shares).all()
    assert not out_of_reach
    assert "0 of 1" in repr(out_of_reach)


def test_tradeoff_is_plotted_and_tabulated(policy: acrl.Policy, tmp_path: Path) -> None:
    curve = policy.tradeoff("power", np.linspace(0.5, 2, 7))
    curve.plot().savefig(tmp_path / "tradeoff.png")
    assert (tmp_path / "tradeoff.png").stat().st_size > 1000
    frame = curve.to_dataframe("pandas")
    assert list(frame.columns) == ["objective", "price"]
    assert len(frame) == 7


def test_bad_arguments_are_refused(policy: acrl.Policy, tmp_path: Path) -> None:
    with pytest.raises(acrl.UnknownNameError, match="unknown requirement 'noise': the policy has"):
        policy.tradeoff("noise")
    with pytest.raises(acrl.InputError, match="finite"):
        policy.tradeoff("power", [np.nan])
    with pytest.raises(acrl.InputError):
        policy.tradeoff("power", requirements=acrl.at_least("noise", 1))
    acrl.solve("monitoring", policy=tmp_path / "solved.safetensors")
    solved = acrl.Policy.load(tmp_path / "solved.safetensors")
    with pytest.raises(acrl.InputError, match="no policy library"):
        _ = solved.library
    with pytest.raises(acrl.InputError, match=r"acrl\.sweep"):
        solved.tradeoff("r1")
