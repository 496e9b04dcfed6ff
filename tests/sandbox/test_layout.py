from __future__ import annotations

import json
import socket
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import pytest

from encamp.errors import SandboxError
from encamp_sandbox.layout import ROOT_VARIABLE, Layout, write_private
from encamp_sandbox.ports import Ports, is_free, is_served


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_sandbox_is_private_and_has_a_token_and_ports_of_its_own(tmp_path: Path) -> None:
    first, second = Layout.create(tmp_path / "a"), Layout.create(tmp_path / "b")
    assert first.token != second.token
    assert not set(first.ports.to_json().values()) - {0} & set(second.ports.to_json().values())
    for layout in (first, second):
        assert all(_mode(path) == 0o700 for path in (layout.root, *layout.root.rglob("*")) if path.is_dir())
        assert all(_mode(path) == 0o600 for path in layout.root.rglob("*") if path.is_file())


def test_creating_again_keeps_everything(tmp_path: Path) -> None:
    first = Layout.create(tmp_path / "sandbox")
    assert Layout.create(tmp_path / "sandbox").config == first.config


def test_the_file_has_the_documented_keys(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path)
    data = json.loads(layout.config_file.read_text())
    assert set(data) == {"version", "project", "ports", "token", "kubernetesProvider", "gcpProvider"}
    assert data["project"] == "sandbox-encamp"
    assert data["ports"]["front"] == layout.ports.front


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 7}', '{"version": 1, "ports": 3}', "\x00"])
def test_a_broken_configuration_is_an_error_with_advice(tmp_path: Path, content: str) -> None:
    layout = Layout.create(tmp_path)
    layout.config_file.write_text(content)
    with pytest.raises(SandboxError, match="encamp sandbox reset"):
        Layout.open(tmp_path)


def test_no_sandbox_is_an_error_with_advice(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="encamp sandbox up"):
        Layout.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match=ROOT_VARIABLE):
        Layout.create(tmp_path / "file" / "sandbox")


def test_the_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "mine"))
    assert Layout.located().root == tmp_path / "mine"
    monkeypatch.delenv(ROOT_VARIABLE)
    assert Layout.located().root.parts[-2:] == (".encamp", "sandbox")


def test_a_socket_path_fits_however_deep_the_sandbox_is(tmp_path: Path) -> None:
    deep = Layout(tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6))
    path = deep.socket("kubelet.sock")
    assert len(str(path).encode()) <= 103
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert path.exists()
    path.unlink()
    assert _mode(path.parent) == 0o700
    path.parent.rmdir()
    shallow = Layout(Path("/tmp/s"))  # noqa: S108 - only its length counts
    assert shallow.socket("kubelet.sock") == shallow.run / "kubelet.sock"


def test_a_private_file_is_replaced_at_once_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private(path, "old")
    with pytest.raises(TypeError):
        write_private(path, 3)  # pyrefly: ignore
    assert path.read_text() == "old"
    write_private(path, b"new")
    assert path.read_text() == "new"
    assert _mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_port_that_somebody_took_is_chosen_again_and_the_others_stay() -> None:
    ports = Ports.choose()
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", ports.front))
        somebody.listen()
        assert not is_free(ports.front)
        assert is_served(ports.front)
        assert ports.taken() == ["front"]
        renewed = ports.renewed(["front"])
    assert renewed.front != ports.front
    assert {**renewed.to_json(), "front": 0} == {**ports.to_json(), "front": 0}
    assert not is_served(ports.front)


def test_ports_are_all_different_and_below_what_clients_get() -> None:
    ports = [port for name, port in Ports.choose().to_json().items() if name != "node_base"]
    assert len(set(ports)) == len(ports)
    assert all(1024 < port < 32768 for port in ports)


def test_sandboxes_that_start_at_once_choose_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    # The module in its place, and not a function of it, which other threads call too.
    # Each twice, as two sandboxes would choose; a sandbox of another process may hold any of them.
    blocks = chain.from_iterable((first, first) for first in range(20_000, 30_000, 100))
    monkeypatch.setattr("encamp_sandbox.ports.random", Mock(randrange=Mock(side_effect=blocks)))
    monkeypatch.setattr("encamp_sandbox.ports.is_free", Mock(return_value=True))
    first, second = Ports.choose().etcd_client, Ports.choose().etcd_client
    assert second > first


def test_ports_of_an_older_file_are_completed() -> None:
    data = Ports.choose().to_json()
    del data["proxy"]
    completed = Ports.from_json({**data, "unknown": 1})
    assert completed.front == data["front"]
    assert completed.proxy > 1024
