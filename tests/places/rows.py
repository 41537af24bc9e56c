"""The environments that the conformance suite runs on: one row each."""

from tests.places import apptainer, daytona, docker, landlock, local, modal, sandbox, ssh
from tests.places.row import Row

ROWS: tuple[Row, ...] = (
    local.ROW,
    sandbox.ROW,
    landlock.ROW,
    docker.ROW,
    apptainer.ROW,
    ssh.ROW,
    modal.ROW,
    daytona.ROW,
)
