"""Manifests as `kubectl kustomize` renders them, and their parts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "deploy" / "k8s"
KUBECTL = Path(sys.executable).parent / "kubectl"
VARIANTS = ("base", "overlays/dev", "overlays/prod")

Object = dict[str, Any]


@cache
def rendered(variant: str) -> tuple[Object, ...]:
    """Every object of a kustomization. Offline: bases and files are local."""
    done = subprocess.run(
        [str(KUBECTL), "kustomize", str(FOLDER / variant)], check=True, capture_output=True, text=True
    )
    assert done.stderr == "", done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(variant: str, *kinds: str) -> list[Object]:
    return [thing for thing in rendered(variant) if thing["kind"] in kinds]


def named(variant: str, kind: str, name: str) -> Object:
    (found,) = (thing for thing in of_kind(variant, kind) if thing["metadata"]["name"] == name)
    return found


class Workload(NamedTuple):
    """One kind of pod: who makes it, its labels, its spec."""

    name: str
    labels: dict[str, str]
    pod: Object
    owner: Object


class Container(NamedTuple):
    """One container of a workload; `lasting` ones run as long as the pod."""

    workload: Workload
    name: str
    spec: Object
    lasting: bool


def workloads(variant: str) -> list[Workload]:
    return [
        Workload(
            owner["metadata"]["name"],
            owner["spec"]["template"]["metadata"]["labels"],
            owner["spec"]["template"]["spec"],
            owner["spec"],
        )
        for owner in of_kind(variant, "StatefulSet", "Deployment", "Job")
    ]


def containers(variant: str) -> Iterator[Container]:
    for workload in workloads(variant):
        is_job = workload.pod.get("restartPolicy") == "Never"
        for spec in workload.pod["containers"]:
            yield Container(workload, spec["name"], spec, lasting=not is_job)
        for spec in workload.pod.get("initContainers", ()):
            yield Container(workload, spec["name"], spec, lasting=spec.get("restartPolicy") == "Always")


def container(variant: str, workload: str, name: str) -> Object:
    (found,) = (one.spec for one in containers(variant) if (one.workload.name, one.name) == (workload, name))
    return found


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a label selector takes these labels (the operators our manifests use)."""
    if any(labels.get(name) != value for name, value in selector.get("matchLabels", {}).items()):
        return False
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In", rule
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return True
