"""Which files of an environment are files of this machine, and so are judged as such."""

from pathlib import Path

from melete.core.environment import Place
from melete.core.places import DockerOptions
from melete.environments.container import WORKSPACE
from melete.environments.docker import Docker
from melete.environments.local import LocalEnvironment
from melete.environments.shared import CODE


def test_every_mount_of_a_container_leads_to_a_file_of_here(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "home" / "data"
    data.mkdir(parents=True)
    volumes = (f"{home}:/home/me", f"{data}:{WORKSPACE}/data:ro", "cache:/cache", "not a mount")
    place = Place(cwd=str(tmp_path), variables={"HOME": str(home)}, options=DockerOptions(volumes=volumes), key="k")
    env = Docker(place)
    assert env.on_host("a") == f"{tmp_path}/a"
    assert env.on_host("data/a") == f"{data}/a"
    assert env.on_host("/home/me/.ssh/id") == f"{home}/.ssh/id"
    assert env.on_host("/cache/a") == env.on_host("/etc/passwd") == ""
    assert env.judge_file("/home/me/.ssh/id", write=False).verdict == "forbid"
    assert env.judge_file("/home/me/.bashrc", write=True).verdict == "forbid"
    assert env.judge_file("/cache/.ssh/id", write=False).verdict == "allow"


def test_the_program_is_not_written_by_its_tools_but_where_it_is_worked_on(tmp_path: Path) -> None:
    path = f"{CODE}/security/commands.py"
    for cwd, verdict in ((str(tmp_path), "forbid"), (CODE, "allow"), (str(Path(CODE).parent), "allow")):
        env = LocalEnvironment(Place(cwd=cwd, variables={"HOME": str(tmp_path)}))
        assert env.judge_file(path, write=True).verdict == verdict
        assert env.judge_file(path, write=False).verdict == "allow"
