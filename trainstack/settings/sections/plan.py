"""Section `trainstack:plan`: prices for `trainstack forecast`."""

from typing import Annotated

from pydantic import Field

from trainstack.settings.base import Section
from trainstack.settings.values.kubernetes import DnsName


class Prices(Section):
    """Prices per hour on one flavor."""

    name: DnsName
    """The flavor, which another stack may declare."""
    per_hour: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    """By resource, for a GPU or MIG slice, a core, a GiB of `memory` or `ephemeral-storage`. Others are free."""


class Plan(Section):
    """Prices; without them, costs are not reported."""

    currency: str = ""
    """The currency to print, such as `EUR`."""
    prices: tuple[Prices, ...] = ()
