"""`kafkalog completion SHELL`: the script that makes a shell complete the command."""

import click
from click.shell_completion import get_completion_class

EPILOG = """\b
bash   eval "$(kafkalog completion bash)"   in ~/.bashrc
zsh    eval "$(kafkalog completion zsh)"    in ~/.zshrc
fish   kafkalog completion fish | source    in ~/.config/fish/config.fish
"""


@click.command(short_help="Print the script that completes this command in a shell.", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes this command in a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "kafkalog", "_KAFKALOG_COMPLETE").source())
