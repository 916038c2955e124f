"""The rights of a team: a Role in its namespace, bound to the members and the optional ServiceAccount.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Collection

from trainstack.objects.labels import Manifest, metadata
from trainstack.objects.launch_kinds import Resource
from trainstack.platform.rbac.rights import API, for_a_team, rules
from trainstack.settings.sections.tenants import Team

TENANT = "tenant-"
"""The prefix of the names of teams' roles and bindings."""


def rights(team: Team, stack: str, optional: Collection[Resource] = ()) -> list[Manifest]:
    """Return the optional ServiceAccount, the Role and the RoleBinding of a team.

    `optional_kinds`: the kinds of launches beyond STANDARD_LAUNCH_KINDS that the platform serves.
    """
    name = f"{TENANT}{team.name}"

    def of_team(api_version: str, kind: str, name: str) -> Manifest:
        meta = metadata(name, stack, namespace=team.namespace)
        return {"apiVersion": api_version, "kind": kind, "metadata": meta}

    accounts = [team.service_account] if team.service_account else []
    return [
        *(of_team("v1", "ServiceAccount", account) for account in accounts),
        {**of_team(f"{API}/v1", "Role", name), "rules": rules(for_a_team(team.namespace, optional))},
        {
            **of_team(f"{API}/v1", "RoleBinding", name),
            "roleRef": {"apiGroup": API, "kind": "Role", "name": name},
            "subjects": [
                *({"apiGroup": API, "kind": "Group", "name": group} for group in team.groups),
                *({"apiGroup": API, "kind": "User", "name": user} for user in team.users),
                *({"kind": "ServiceAccount", "name": account, "namespace": team.namespace} for account in accounts),
            ],
        },
    ]
