"""`melete policy`: why a call would be allowed, asked about or forbidden, and what was approved for good."""

import click

from melete.surfaces.cli.lazy import LazyGroup

COMMANDS = {
    "explain": "melete.surfaces.cli.policy_explain:explain_",
    "grants": "melete.surfaces.cli.policy_grants:grants",
    "revoke": "melete.surfaces.cli.policy_grants:revoke",
}


@click.group(cls=LazyGroup, targets=COMMANDS)
def policy() -> None:
    """See what needs an approval, and what was approved for good."""
