import json

import jsonschema_rs
import yaml
from click.testing import CliRunner

from modelplane.api.kinds import KINDS
from modelplane.cli.main import main
from support.manifests import CLASS, DEPLOYMENT


def schema(*arguments):
    return CliRunner().invoke(main, ["schema", *map(str, arguments)])


def test_one_kind_is_printed_by_any_of_its_names():
    printed = {schema(name).output for name in ("ModelDeployment", "modeldeployments", "md")}
    [text] = printed
    document = json.loads(text)
    assert (document["title"], jsonschema_rs.is_valid(document, yaml.safe_load(DEPLOYMENT))) == (
        "ModelDeployment",
        True,
    )


def test_several_kinds_are_one_schema_that_leaves_other_kinds_alone():
    document = json.loads(schema("md", "icl").output)
    assert sorted(document["definitions"]) == ["InferenceClass", "ModelDeployment"]
    validator = jsonschema_rs.Draft7Validator(document)
    wrong = yaml.safe_load(CLASS) | {"spec": {"devicess": []}}
    assert [
        validator.is_valid(each)
        for each in (yaml.safe_load(CLASS), wrong, {"apiVersion": "v1", "kind": "Secret", "data": {}})
    ] == [True, False, True]


def test_yaml_is_the_same_schema():
    assert yaml.safe_load(schema("ms", "-o", "yaml").output) == json.loads(schema("ms").output)


def test_a_folder_has_a_file_for_each_kind_and_one_for_all(tmp_path):
    result = schema("--dir", tmp_path / "schemas")
    assert (result.exit_code, result.stdout) == (0, "")
    written = {str(file.relative_to(tmp_path / "schemas")) for file in tmp_path.rglob("*.json")}
    assert written == {
        "all.json",
        *(f"{kind.group}/{kind.name.lower()}_v1alpha1.json" for kind in KINDS),
    }
    assert set(schema("-o", "name").output.split()) == written
    one = json.loads((tmp_path / "schemas/modelplane.ai/modelservice_v1alpha1.json").read_text())
    assert one == json.loads(schema("ModelService").output)


def test_an_unknown_kind_is_an_error_with_those_that_are_near():
    result = schema("modeldeploymnt")
    assert (result.exit_code, result.output) == (
        1,
        (
            'Error: unknown kind "modeldeploymnt": did you mean ModelDeployment or ModelEndpoint? '
            "`modelplane schema -o name` lists the kinds\n"
        ),
    )
