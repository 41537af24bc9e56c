"""Which addresses on the network may be reached. Pure judgement: nothing is resolved here."""

from ipaddress import ip_address

from melete.core.policy import Verdict


def judge_address(text: str) -> Verdict:
    """Whether an IP address is a public one; every other is forbidden, and so is what is no address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return Verdict(verdict="forbid", rule="address", reason="it is no address")
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    if not address.is_global or address.is_multicast:
        return Verdict(verdict="forbid", rule="address", reason="it is not a public address")
    return Verdict()
