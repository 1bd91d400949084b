"""The fields of CloudNativePG's Cluster that the manifests use, and what kind of value each takes.

Its schema comes with no package. This table was written from reading the types of its API (v1) and its documentation, November 2026.
"""

from collections.abc import Iterator

from tests.support.manifests import Resource

QUANTITIES = {"cpu": str, "memory": str}
SPEC: dict[str, object] = {
    "instances": int,
    "imageCatalogRef": {"apiGroup": str, "kind": str, "name": str, "major": int},
    "bootstrap": {"initdb": {"database": str, "owner": str, "postInitApplicationSQL": [str]}},
    "postgresql": {"parameters": {"*": str}},
    "storage": {"size": str},
    "resources": {"requests": QUANTITIES, "limits": QUANTITIES},
    "affinity": {"enablePodAntiAffinity": bool, "topologyKey": str},
}
KINDS_OF_CATALOG = ("ImageCatalog", "ClusterImageCatalog")


def wrong_in(cluster: Resource) -> list[str]:
    """What is wrong with a Cluster: a field that is not known, or a value of another kind."""
    found = list(unlike(cluster["spec"], SPEC, "spec"))
    if cluster["apiVersion"] != "postgresql.cnpg.io/v1":
        found.append(f"apiVersion {cluster['apiVersion']}")
    catalog = cluster["spec"].get("imageCatalogRef", {})
    if catalog.get("apiGroup") != "postgresql.cnpg.io" or catalog.get("kind") not in KINDS_OF_CATALOG:
        found.append("spec.imageCatalogRef names no catalog")
    return found


def unlike(value: object, known: object, where: str) -> Iterator[str]:
    if isinstance(known, dict):
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        for name, inner in value.items():
            if name not in known and "*" not in known:
                yield f"{where}.{name} is not known"
            else:
                yield from unlike(inner, known.get(name, known.get("*")), f"{where}.{name}")
    elif isinstance(known, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for inner in value:
            yield from unlike(inner, known[0], f"{where}[]")
    elif type(value) is not known:
        yield f"{where} is {value!r}"
