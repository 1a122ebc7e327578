"""The steps of a release: the version of the tag, and a README whose links work on a package index."""

import importlib.util
import re

import pytest

import attn_closed_form
from tests.pages import ROOT

ADDRESS = "https://host.example/owner/name/blob/v1.2.3"


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tag_must_be_the_version(release, capsys):
    assert release.version() == attn_closed_form.__version__
    assert release.main(["version", f"v{attn_closed_form.__version__}"]) == 0
    assert release.main(["version", "v0.0.1"]) == 1
    assert "got v0.0.1" in capsys.readouterr().err
    assert release.main([]) == 2


def test_every_link_of_the_readme_becomes_an_address(release):
    page = release.with_addresses((ROOT / "README.md").read_text(encoding="utf-8"), ADDRESS)
    targets = re.findall(r"\]\(([^)\s]+)\)", page)
    assert all(target.startswith("https://") for target in targets)
    assert f"{ADDRESS}/CONTRIBUTING.md" in targets
    assert f"{ADDRESS.replace('/blob/', '/raw/')}/docs/report.png" in targets


def test_code_and_addresses_stay_as_they_are(release):
    text = "```py\na[0](b)\n```\n[`x`](y.md#z), [w](https://w.example), [t](#t)\n"
    expected = text.replace("y.md", f"{ADDRESS}/y.md")
    assert release.with_addresses(text, ADDRESS) == expected


def test_a_reader_of_the_package_index_installs_by_name(release):
    page = release.from_index((ROOT / "README.md").read_text(encoding="utf-8"))
    installs = re.findall(r"pip install ([^`\n]+)", page)
    assert installs and all("attn-closed-form" in arguments for arguments in installs)
    assert "installed from source" not in page and "from source -->" not in page
