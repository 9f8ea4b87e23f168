"""The manifests: rendered by kubectl, valid to the letter, and as locked down as they say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tidegate.runtime.settings import parse_settings

ROOT = Path(__file__).resolve().parent.parent.parent.parent / "deploy" / "k8s"
PLACES = ["base", "overlays/dev", "overlays/prod"]
KUBERNETES = "1.34"


@lru_cache
def rendered(place: str) -> list[dict[str, Any]]:
    kubectl = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or "kubectl"
    done = subprocess.run(
        [kubectl, "kustomize", str(ROOT / place)], capture_output=True, text=True, check=True
    )
    return list(yaml.safe_load_all(done.stdout))


def pods(place: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (m["metadata"]["name"], m["spec"]["template"]) for m in rendered(place) if m["kind"] == "StatefulSet"
    ]


@pytest.mark.parametrize("place", PLACES)
def test_every_manifest_is_valid_to_the_letter(place: str) -> None:
    assert len(rendered(place)) >= 13
    for manifest in rendered(place):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("place", PLACES)
def test_every_container_is_locked_down_probed_and_bounded(place: str) -> None:
    for name, template in pods(place):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert set(container["resources"]) == {"requests", "limits"}
            assert "livenessProbe" in container, name
            tag = container["image"].rpartition(":")[2]
            assert tag != "latest"
            assert tag[0].isdigit()


@pytest.mark.parametrize("place", PLACES)
def test_default_deny_covers_every_pod_and_the_metadata_address_is_out_of_reach(place: str) -> None:
    policies = {m["metadata"]["name"]: m["spec"] for m in rendered(place) if m["kind"] == "NetworkPolicy"}
    labels = policies["default-deny"]["podSelector"]["matchLabels"].items()
    for _, template in pods(place):
        assert labels <= template["metadata"]["labels"].items()
    (block,) = policies["gateway"]["egress"][0]["to"]
    assert "169.254.0.0/16" in block["ipBlock"]["except"]


def test_the_config_is_a_good_one_and_its_ports_are_those_of_the_containers() -> None:
    (config,) = [m for m in rendered("base") if m["kind"] == "ConfigMap"]
    settings = parse_settings(config["data"]["tidegate.toml"])
    ports = {
        port["containerPort"]
        for _, template in pods("base")
        for container in template["spec"]["containers"]
        for port in container.get("ports", [])
    }
    assert ports == {settings.gateway.port, settings.admin.port}
    grace = {name: template["spec"]["terminationGracePeriodSeconds"] for name, template in pods("base")}
    assert grace["gateway"] > settings.gateway.drain_delay_s + settings.gateway.drain_grace_s


def test_secrets_come_from_a_secret_and_none_is_in_the_manifests() -> None:
    assert [m for m in rendered("overlays/prod") if m["kind"] == "Secret"] == []
    for _, template in pods("base"):
        for container in template["spec"]["containers"]:
            assert container["envFrom"] == [{"secretRef": {"name": "tidegate-secrets"}}]


def test_the_image_installs_by_hash_and_runs_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert text.count("--require-hashes") == 2
    assert "USER 10001:10001" in text
    for name in ("requirements-build.lock", "requirements-runtime.lock"):
        lock = (ROOT.parent.parent / name).read_text()
        assert "://" not in lock
        assert "--hash=sha256:" in lock
