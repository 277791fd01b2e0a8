"""`pidual methods`."""

import json

import click

from .options import json_option


@click.command()
@json_option()
def methods(as_json: bool) -> None:
    """List the methods."""
    from ..learn.methods import METHODS

    rows = [
        {
            "name": name,
            "title": method.title,
            "reference": method.reference,
            "uses_pi": method.needs_pi,
            "networks": method.networks,
            "stages": method.stages,
            "per_row_state": method.per_row_state or None,
            "scores": list(method.scores),
        }
        for name, method in METHODS.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for name, method in METHODS.items():
        facts = ["the default"] if name == "latent_truth" else []
        facts += [f"{method.networks} networks"] if method.networks > 1 else []
        facts += [f"{method.stages} stages"] if method.stages > 1 else []
        facts += ["uses PI"] if method.needs_pi else []
        facts += [f"keeps {method.per_row_state} per row"] if method.per_row_state else []
        click.echo(f"{name:15} {method.title}: {method.reference}{'; ' + ', '.join(facts) if facts else ''}")
