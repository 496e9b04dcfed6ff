from __future__ import annotations

import json

import pytest

from encamp.tuning.model import Measurement, Trial, TrialState, text_of


def test_a_trial_comes_back_from_json_as_it_was() -> None:
    trial = Trial(
        number=3,
        values={"rate": 1e-05, "layers": 2, "optimizer": "adam", "batch": 64.0},
        state=TrialState.SUCCEEDED,
        measurements=(Measurement(1, 0.1, 5.0), Measurement(2, 1 / 3, 6.5)),
        final=Measurement(2, 1 / 3, 6.5),
        stopped_early=True,
        parent=1,
        message="",
        created=1.0,
        started=2.0,
        ended=7.25,
        job_id="tune",
    )
    back = Trial.from_json(json.loads(json.dumps(trial.to_json())))
    assert back == trial
    assert [type(value) for value in back.values.values()] == [float, int, str, float]


def test_what_is_no_trial_is_refused() -> None:
    with pytest.raises(ValueError, match="DONE"):
        Trial.from_json({"number": 1, "values": {}, "state": "DONE"})


@pytest.mark.parametrize(("value", "text"), [(64.0, "64"), (0.1, "0.1"), (1e-05, "1e-05"), (3, "3"), ("a b", "a b")])
def test_values_are_written_so_that_they_are_read_back(value: float | str, text: str) -> None:
    assert text_of(value) == text
