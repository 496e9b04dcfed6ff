from __future__ import annotations

from encamp.plan.cost.bill import MOST_LABELS, bill_labels


def test_a_jobs_labels_are_put_on_the_bill_but_for_those_of_others() -> None:
    kept, warnings = bill_labels({"team": "vision", "goog-x": "1", "encamp-owner": "me"})
    assert kept == {"team": "vision"}
    assert warnings == ("labels of Google's and encamp's own are not put on resources: encamp-owner, goog-x",)


def test_no_labels_are_no_labels() -> None:
    assert bill_labels(None) == ({}, ())


def test_more_labels_than_a_resource_takes_are_left_out_and_named() -> None:
    kept, warnings = bill_labels({f"k{number:02}": "v" for number in range(MOST_LABELS + 2)})
    assert len(kept) == MOST_LABELS
    assert warnings == ("resources take 50 labels of a job; left out: k50, k51",)
