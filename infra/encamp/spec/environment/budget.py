"""The ``budget`` block of an environment: a budget alert."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Double, Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

_ACCOUNT = re.compile(r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}")
_CURRENCY = re.compile(r"[A-Z]{3}")
_TOPIC = re.compile(r"projects/[a-z0-9.:-]+/topics/[A-Za-z][A-Za-z0-9._~+%-]{2,254}")
_CHANNEL = re.compile(r"projects/[a-z0-9.:-]+/notificationChannels/[0-9]+")
#: A budget's rules and channels: cloud.google.com/billing/docs/how-to/budgets.
MOST_CHANNELS = 5
_LARGEST_SHARE = 10.0


class BudgetSpec(Written):
    """An alert on what the environment's resources cost in a month. It stops nothing: job budgets do."""

    billing_account: Text = ""
    """Billing account, such as ``0123AB-4567CD-89EF01``."""
    amount: Int64 = 0
    """Budget of a month, in whole units of the currency."""
    currency: Text | None = None
    """Currency of the billing account, such as ``EUR``; its own when absent."""
    at: tuple[Double, ...] = (0.5, 0.9, 1.0)
    """Shares of the amount that are reported when they have been spent."""
    at_forecast: tuple[Double, ...] = (1.0,)
    """Shares of the amount that are reported when they will be spent by the end of the month."""
    whole_project: Flag = False
    """Everything of the project counts, not only what carries the environment's label."""
    channels: tuple[Text, ...] = ()
    """Notification channels of Cloud Monitoring; billing administrators and users get mail in any case."""
    topic: Text | None = None
    """A Pub/Sub topic that is told of every update, ``projects/P/topics/T``."""


def budget_problems(budget: BudgetSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    del environment
    if not _ACCOUNT.fullmatch(budget.billing_account):
        hint = "`gcloud billing accounts list` names them"
        yield Found(("billing_account",), f"{budget.billing_account!r} is no billing account", hint)
    if budget.amount < 1:
        yield Found(("amount",), f"{budget.amount} must be at least 1")
    if budget.currency is not None and not _CURRENCY.fullmatch(budget.currency):
        yield Found(("currency",), f"{budget.currency!r} must be a currency of three letters", "such as EUR")
    yield from _shares(budget)
    yield from _told(budget)


def _shares(budget: BudgetSpec) -> Iterator[Found]:
    for name in ("at", "at_forecast"):
        shares: tuple[float, ...] = getattr(budget, name)
        for index, share in enumerate(shares):
            if not 0 < share <= _LARGEST_SHARE:
                hint = f"write {share / 100:g}" if _LARGEST_SHARE < share <= 100 * _LARGEST_SHARE else None
                yield Found((name, index), f"{share:g} must be a share of the amount, such as 0.5", hint)
        if len(set(shares)) != len(shares):
            yield Found((name,), "names a share twice")
    if not budget.at and not budget.at_forecast:
        yield Found(("at",), "there is nothing to report", "such as [0.5, 0.9, 1.0]")


def _told(budget: BudgetSpec) -> Iterator[Found]:
    if len(budget.channels) > MOST_CHANNELS:
        yield Found(("channels",), f"holds {len(budget.channels)} channels; a budget takes {MOST_CHANNELS}")
    for index, channel in enumerate(budget.channels):
        if not _CHANNEL.fullmatch(channel):
            hint = "such as projects/my-project/notificationChannels/123"
            yield Found(("channels", index), f"{channel!r} is no full name of a channel", hint)
    if budget.topic is not None and not _TOPIC.fullmatch(budget.topic):
        yield Found(("topic",), f"{budget.topic!r} is no full name of a topic", "such as projects/my-project/topics/t")
