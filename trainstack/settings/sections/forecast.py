"""Section `trainstack:plan`: what `trainstack plan` reckons with beside queues and runs."""

from typing import Annotated

from pydantic import Field

from trainstack.settings.base import DnsName, Section


class Prices(Section):
    """What an hour costs on one flavor."""

    name: DnsName
    """The flavor's; a tenant may name one that another stack declares."""
    per_hour: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    """By resource, for one unit of it: a GPU, or a MIG slice; a core; a GiB of `memory` or `ephemeral-storage`. What is
    not named costs nothing."""


class Plan(Section):
    """Prices. Where there are none, no cost is told."""

    currency: str = ""
    """What the prices are in: `EUR`. It is only shown."""
    prices: tuple[Prices, ...] = ()
