"""`pylite run` in this process."""
import json

from pylite import cli


def run(capsys, *arguments, code=0):
    assert cli.main(["run", *map(str, arguments)]) == code
    return capsys.readouterr()


def report(capsys, *arguments):
    return json.loads(run(capsys, *arguments, "--json").out)
