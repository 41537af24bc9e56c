"""The servers of package managers are found in the machine's own configuration, and never in what commands can write."""

import os
import zipfile
from pathlib import Path

import pytest

from melete.environments.registries import Machine, configured, derived, entry_of

NPM_CODE = "define('registry', {\n  default: 'https://packages.example/',\n  type: url })"
PIP_CODE = 'PyPI = PackageIndex("https://index.example/", file_storage_domain="storage.example")\n'


def put(root: Path, name: str, text: str, *, mode: int = 0o644) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def machine(root: Path, **variables: str) -> Machine:
    (root / "home").mkdir(exist_ok=True)
    (root / "work").mkdir(exist_ok=True)
    return Machine({"HOME": str(root / "home"), **variables}, cwd=str(root / "work"), root=str(root))


def listed(machine: Machine) -> dict[str, str]:
    return {str(entry): entry.why for entry in derived(machine)}


def test_a_bare_machine_has_none(tmp_path: Path) -> None:
    assert listed(machine(tmp_path)) == {}


def test_configuration_of_the_person_and_of_the_machine_is_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        "home/.config/pip/pip.conf",
        "[global]\nindex-url = https://me:word@a.example/simple\nproxy = http://p.example\n",
    )
    put(
        tmp_path,
        "etc/pip.conf",
        "[install]\nextra-index-url =\n    https://b.example/simple\n    https://b2.example:8443/\n# https://no.example\n",
    )
    put(
        tmp_path,
        "home/.npmrc",
        "registry=https://c.example/\n@me:registry=https://c2.example/\n//c.example/:_authToken=x\nhttps-proxy=http://p.example\n",
    )
    put(tmp_path, "home/.yarnrc.yml", 'npmRegistryServer: "https://d.example"\n')
    put(
        tmp_path,
        "home/.cargo/config.toml",
        '[source.crates-io]\nreplace-with = "m"\n[source.m]\nregistry = "sparse+https://e.example/i/"\n',
    )
    put(tmp_path, "home/.config/go/env", "GOPROXY=https://f.example,https://f2.example|direct\n")
    put(tmp_path, "home/.gemrc", ":sources:\n- https://g.example/\n")
    put(
        tmp_path, "home/.m2/settings.xml",
        '<settings xmlns="http://no.example/SETTINGS"><!-- <url>https://no.example</url> --><mirror><url>https://h.example/m</url>',
    )  # fmt: skip
    put(tmp_path, "etc/apt/sources.list", "deb http://i.example/debian stable main\n# deb http://no.example/ x\n")
    put(tmp_path, "etc/apt/sources.list.d/more.sources", "Types: deb\nURIs: http://i2.example/debian\n")
    put(tmp_path, "home/.nuget/NuGet/NuGet.Config", '<add key="k" value="https://j.example/index.json" />')
    found = listed(machine(tmp_path, UV_INDEX="https://k.example/simple https://k2.example/simple", GOSUMDB="off"))
    hosts = ["a", "b", "b2:8443", "c", "c2", "d", "e", "f", "f2", "g", "h", "i", "i2", "j", "k", "k2"]
    expected = {host.replace(":", ".example:") if ":" in host else f"{host}.example" for host in hosts}
    assert set(found) == expected
    assert found["a.example"] == "server of pip"
    assert found["h.example"] == "server of Maven"


def test_defaults_come_from_the_programs_that_are_installed(tmp_path: Path) -> None:
    npm = put(tmp_path, "opt/npm/bin/npm-cli.js", "", mode=0o755)
    put(tmp_path, "opt/npm/node_modules/@npmcli/config/lib/definitions/definitions.js", NPM_CODE)
    put(tmp_path, "bin/go", "", mode=0o755)
    put(tmp_path, "go.env", "GOPROXY=https://go.example,direct\nGOSUMDB=sums.example\n")
    put(tmp_path, "bin/cargo", "\0\1sparse+https://crates.example/\0", mode=0o755)
    put(tmp_path, "home/.cargo/registry/index/x/config.json", '{"dl": "https://dl.example/crates"}')
    put(tmp_path, "bin/gem", "", mode=0o755)
    put(tmp_path, "lib/ruby/vendor_ruby/rubygems/defaults.rb", "%w[https://gems.example/]")
    put(tmp_path, "bin/mvn", "", mode=0o755)
    with zipfile.ZipFile(put(tmp_path, "lib/maven-model-builder-3.jar", ""), "w") as archive:
        archive.writestr(
            "org/apache/maven/model/pom-4.0.0.xml", "<project><url>https://maven.example/m2</url></project>"
        )
    (tmp_path / "bin" / "npm").symlink_to(npm)
    here = machine(tmp_path, PATH=str(tmp_path / "bin"))
    names = ("packages", "go", "sums", "crates", "dl", "gems", "maven")
    assert set(listed(here)) == {f"{name}.example" for name in names}


def test_the_default_of_pip_comes_from_its_own_code_unless_another_is_set(tmp_path: Path) -> None:
    put(tmp_path, "bin/pip", "", mode=0o755)
    put(tmp_path, "lib/python3.11/site-packages/pip/_internal/models/index.py", PIP_CODE)
    found = listed(machine(tmp_path, PATH=str(tmp_path / "bin")))
    assert len(found) == 2  # the pip beside this Python comes first, if there is one
    assert set(found.values()) == {"server of pip"}
    other = listed(machine(tmp_path, PATH=str(tmp_path / "bin"), PIP_INDEX_URL="https://a.example/simple"))
    assert set(other) == {"a.example"}


def test_nothing_that_commands_can_write_is_believed(tmp_path: Path) -> None:
    put(tmp_path, "work/.npmrc", "registry=https://evil.example/")
    put(tmp_path, "work/pip.conf", "[global]\nindex-url=https://evil.example/")
    put(tmp_path, "work/bin/go", "", mode=0o755)
    put(tmp_path, "work/go.env", "GOPROXY=https://evil.example\n")
    path = os.pathsep.join([str(tmp_path / "work" / "bin"), "bin", ".", ""])
    assert listed(machine(tmp_path, PATH=path)) == {}


def test_files_of_a_home_that_is_worked_in_are_not_believed(tmp_path: Path) -> None:
    put(tmp_path, "work/.config/pip/pip.conf", "[global]\nindex-url=https://evil.example/")
    put(tmp_path, "work/.npmrc", "registry=https://evil.example/")
    (tmp_path / "link.conf").symlink_to("work/.config/pip/pip.conf")
    for name in ("work/.config/pip/pip.conf", "link.conf"):
        found = machine(tmp_path, HOME=str(tmp_path / "work"), PIP_CONFIG_FILE=str(tmp_path / name))
        assert listed(found) == {}


def test_files_in_folders_that_the_settings_let_be_written_are_not_believed(tmp_path: Path) -> None:
    put(tmp_path, "home/.cargo/config.toml", '[source.a]\nregistry = "https://evil.example/"\n')
    put(tmp_path, "home/.npmrc", "registry=https://good.example/")
    variables = {"HOME": str(tmp_path / "home")}
    found = Machine(variables, cwd=str(tmp_path / "work"), root=str(tmp_path), written=("~/.cargo",))
    assert set(listed(found)) == {"good.example"}


def test_private_servers_are_no_entries() -> None:
    for address in (
        "http://127.0.0.1:3141/",
        "http://localhost/",
        "http://10.0.0.1/",
        "http://registry.internal/",
        "http://[::1]/",
        "http://x:y/",
    ):
        assert entry_of(address, why="") is None, address
    assert str(entry_of("https://93.184.215.14:8080/x", why="")) == "93.184.215.14:8080"


@pytest.mark.parametrize("kind", ("folder", "fifo", "large", "binary", "zip"))
def test_what_cannot_be_read_allows_nothing(tmp_path: Path, kind: str) -> None:
    here = machine(tmp_path, PATH=str(tmp_path / "bin"))
    path = tmp_path / "home" / ".npmrc"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b"registry=https://a.example/\n" + b"#" * (2 << 20))
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 50)
    else:
        put(tmp_path, "bin/mvn", "", mode=0o755)
        put(tmp_path, "lib/maven-model-builder-3.jar", "no archive")
        put(tmp_path, "bin/cargo", "", mode=0o755)
    assert listed(here) == {}


def test_a_key_lasts_over_lines_that_only_hold_addresses() -> None:
    text = "find-links =\n  https://a.example/\n  https://b.example/\nproxy = \n  http://c.example/\n"
    assert list(configured(text)) == [("find-links", "https://a.example/"), ("find-links", "https://b.example/")]
