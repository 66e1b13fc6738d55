"""``overt record``: a folder on disk, somebody's own factory, and one line for what is missing."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from rich.cells import cell_len
from rich.console import Console
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from overt.cli import heads as cli_heads
from overt.cli import main
from overt.torch.record import Measures, load, record, table
from overt.views.paper import Paper

pytestmark = pytest.mark.filterwarnings("ignore")
WORDS = ["<unk>", "<s>", "</s>", "the", "capital", "of", "France", "is", "Paris", "<b>", "\x1b[31m"]
TEXT = "the capital of France is the capital"


def save(folder: Path, kind: str = "Llama", head: str = "ForCausalLM", **config: Any) -> Path:
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    torch.manual_seed(0)
    sizes = {
        "Llama": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
        "T5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 1},
    }[kind]
    made = getattr(transformers, f"{kind}Config")(vocab_size=len(WORDS), eos_token_id=None, **sizes, **config)
    model = getattr(transformers, f"{kind}{head}")(made)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.copy_(torch.randn_like(p) * 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("llama"))


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main(["record", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def test_a_table_and_what_the_last_token_looked_at(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, model, TEXT)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["name", "way", "heads"]
    assert lines[1].split()[:6] == ["model.layers.0.self_attn", "interface", "4", "7", "×", "7"]
    assert "induction" in lines[4]
    assert "what the last token, capital@6, looked at" in out
    assert lines[-1].startswith("  model.layers.")
    assert "capital@1 " in out


ANY = np.random.default_rng(0)


def measured(name: str, heads: int) -> Measures:
    return Measures(name, *(ANY.random(heads) for _ in range(6)))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("heads", [1, 6, 12, 32])
@pytest.mark.parametrize(
    "names",
    [
        [f"model.layers.{i}.self_attn" for i in range(12)],
        ["encoder.block.0.layer.0.SelfAttention", "decoder.block.0.layer.0.SelfAttention"],
        ["", "deep"],
        ["attention"],
    ],
)
def test_a_line_of_heads_is_no_wider_than_the_window(names: list[str], heads: int, width: int) -> None:
    found = {name: measured(name, heads) for name in names}
    for colours in ("truecolor", None):
        console = Console(width=width, force_terminal=True, color_system=colours, file=io.StringIO(), highlight=False)
        lines = cli_heads.lines(found, Paper(console))
        assert max(cell_len(line.plain) for line in lines) <= width
        assert len({line.plain.split("  ")[0] for line in lines[1 : 1 + len(names)]}) == len(names)
        # What most people look for gives way last; a head that is named has no shades.
        strongest = int(np.nanargmax(found[names[0]].induction))
        if heads <= 12:
            assert "each cell a head" in lines[-2].plain
        else:
            assert f"head {strongest}" in lines[1].plain or "each cell a head" in lines[-2].plain


def test_shades_of_heads_are_their_numbers() -> None:
    kinds = {kind: np.full(2, np.nan) for kind in ("sinks", "entropy", "previous", "special")}
    found = {"a.0.b": Measures("a.0.b", first=np.array([0.0, 1.0]), induction=np.array([1.0, np.nan]), **kinds)}
    console = Console(width=80, color_system=None, file=io.StringIO())
    first, second, *_ = (line.plain for line in cli_heads.lines(found, Paper(console)))
    assert first.split() == ["name", "first", "induction"]
    assert second == "a.0.b   50%   ██  100% ██· "


def test_names_are_cut_as_long_as_they_can_be_told_apart() -> None:
    assert cli_heads.short(["m.layers.0.attn", "m.layers.1.attn"]) == ["0", "1"]
    assert cli_heads.short(["m.0.attn", "m.0.attn#2"]) == ["attn", "attn#2"]
    assert cli_heads.short(["", "a"]) == ["(model)", "a"]
    assert cli_heads.short(["a.b"]) == ["a.b"]
    names = ["encoder.layer.0", "encoder.layer.10"]
    assert table.shortened(names, 99) == names
    assert table.shortened(names, 12) == ["enco.laye.0", "enco.laye.10"]
    assert table.shortened(["longish", "longest"], 3) == ["longi", "longe"]


def test_the_table_fits_the_window(model: Path) -> None:
    transformed = transformers.LlamaForCausalLM.from_pretrained(model)
    with torch.no_grad(), record(transformed) as rec:
        transformed(torch.arange(3, 10)[None])
    assert max(map(len, table.text(rec, 80).splitlines())) <= 80
    assert table.text(rec, 80).splitlines()[-1] == "way of all: interface"
    narrow = table.text(rec, 66).splitlines()
    assert max(map(len, narrow)) <= 66
    assert [line.split()[0] for line in narrow[1:3]] == ["model.layer.0.self_", "model.layer.1.self_"]
    assert table.text(rec, 200) == str(rec)


def test_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, model, TEXT, "--json", "--layers", "*.1.*")
    found = json.loads(out)
    assert code == 0
    assert found["tokens"] == TEXT.split()
    assert [x["name"] for x in found["attentions"]] == ["model.layers.1.self_attn"]
    entry = found["attentions"][0]
    assert entry["shape"] == [1, 4, 7, 7]
    assert entry["deviation"] < 1e-5
    assert all(len(entry["heads"][kind]) == 4 for kind in ("first", "entropy", "induction", "previous"))
    assert {x["head"] for x in found["last"]} == {0, 1, 2, 3}
    top = found["last"][0]["keys"][0]
    assert found["tokens"][top["key"]] == top["token"]
    assert found["written"] is None


def test_generation_files_and_names(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, saved, names = tmp_path / "a.html", tmp_path / "a.npz", tmp_path / "names.txt"
    code, out, err = run(capsys, model, TEXT, "--generate", 3, "--page", page, "--save", saved)
    assert (code, err) == (0, "")
    assert out.count("wrote ") == 2
    assert "France" in page.read_text()
    assert load(saved)["model.layers.0.self_attn"].weights.shape == (1, 4, 9, 9)
    found = json.loads(run(capsys, model, TEXT, "--generate", 3, "--json")[1])
    assert len(found["tokens"]) == 9
    assert found["written"]
    assert found["attentions"][0]["calls"] == 3
    names.write_text("\n".join("ABCDEFG"))
    assert "what the last token, G@6, looked at" in run(capsys, model, TEXT, "--tokens", names)[1]
    for wrong in ("ABCDEF", "ABCDEFGH"):
        names.write_text("\n".join(wrong))
        for more in ((), ("--json",), ("--page", tmp_path / "b.html"), ("--save", tmp_path / "b.npz")):
            message = f"overt: {names} names {len(wrong)} tokens, but there are 7: give one name a line\n"
            assert run(capsys, model, TEXT, "--tokens", names, *more) == (2, "", message)
    assert not (tmp_path / "b.html").exists()
    assert not (tmp_path / "b.npz").exists()


def test_an_encoder_decoder_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = save(tmp_path / "t5", "T5", "ForConditionalGeneration")
    code, out, err = run(capsys, folder, TEXT, "--generate", 4, "--json")
    assert (code, err) == (0, "")
    shapes = {x["name"]: x["shape"] for x in json.loads(out)["attentions"]}
    assert shapes["encoder.block.0.layer.0.SelfAttention"] == [1, 4, 7, 7]
    assert shapes["decoder.block.1.layer.1.EncDecAttention"] == [1, 4, 4, 7]


def test_words_of_a_tokenizer_do_not_steer_the_terminal(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, model, "<b> \x1b[31m the <b>", "--page", model / "a.html")
    assert code == 0
    assert "\x1b" not in out + run(capsys, model, "the \x1b[31m the")[1]
    assert "<b>" not in (model / "a.html").read_text().split("<script")[-2]


FACTORY = """
import torch
def tiny(text=None):
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.ones(1, len(text or "four"), 8)
    return model, (x, x, x)
def named(text=None):
    return torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), {"src": torch.ones(1, 3, 8)}
def wrong():
    return 3
def failing():
    raise ValueError("no such thing")
def writing():
    class Writer(torch.nn.MultiheadAttention):
        main_input_name = "query"
        def generate(self, *inputs, max_new_tokens, do_sample):
            self(*inputs)
            return torch.arange(max_new_tokens)[None]
    x = torch.ones(1, 4, 8)
    return Writer(8, 2, batch_first=True), (x, x, x)
def long():
    return torch.nn.Embedding(3, 4), torch.tensor([[7]])
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.usefixtures("own")
def test_a_factory(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "own_models:tiny", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["attentions"][0]["shape"] == [1, 2, 4, 4]
    code, out, _ = run(capsys, "own_models:tiny", "longer")
    assert "6 × 6" in out
    assert "self_attn" in run(capsys, "own_models:named")[1]
    # What writes without a tokenizer writes numbers.
    assert run(capsys, "own_models:writing", "--generate", "3")[1].startswith("0 1 2\n")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["own_models:failing"], "own_models:failing failed: ValueError: no such thing"),
        (["own_models:long"], "Embedding cannot read this: IndexError: index out of range"),
        (["own_models:wrong"], r"must return \(model, inputs\).*not int"),
        (["own_models:missing"], "own_models:missing cannot be imported"),
        (["no_such_module:x"], "no_such_module:x cannot be imported: No module named"),
        (["own_models:tiny", "--generate", "3"], "MultiheadAttention cannot generate"),
        (["nowhere", "text"], "nowhere is no folder"),
        (["nowhere"], "there is no text to read"),
        ([".", "text"], r"has no config\.json"),
    ],
)
def test_what_is_missing_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err), err


def test_folders_that_cannot_be_read(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def changed(name: str) -> Path:
        return Path(shutil.copytree(model, tmp_path / name))

    pickled = changed("pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    broken = changed("broken")
    (broken / "model.safetensors").write_bytes(b"nonsense")
    unknown = changed("unknown")
    (unknown / "config.json").write_text('{"model_type": "nobody_knows"}')
    remote = changed("remote")
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}}
    (remote / "config.json").write_text(json.dumps(config))
    (remote / "code.py").write_text("raise SystemExit('this must never run')")
    (unread := changed("unread")).joinpath("tokenizer.json").unlink()
    # A list is no configuration, and what listens reads no text.
    (listed := changed("listed")).joinpath("config.json").write_text("[1]")
    listening = changed("listening")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4
    )
    transformers.ViTModel(config).save_pretrained(listening)
    # What the file has not would be drawn, and what is of another size too.
    lacking, narrow = changed("lacking"), changed("narrow")
    name = "model.layers.1.self_attn.k_proj.weight"
    held = load_file(lacking / "model.safetensors")
    key = held.pop(name)
    save_file(held, lacking / "model.safetensors", {"format": "pt"})
    save_file({**held, name: key[:3].clone()}, narrow / "model.safetensors", {"format": "pt"})
    for folder, message in (
        (pickled, "no weights in safetensors"),
        (broken, "cannot be read"),
        (unknown, "cannot be read"),
        (remote, "cannot be read"),
        (unread, "no tokenizer"),
        (lacking, f"are not all those of a LlamaForCausalLM: they lack {name}\n"),
        (narrow, f"they lack {name}, which is (3, "),
        (listed, "config.json cannot be read"),
        (listening, "ViTModel reads pixel_values, not text: give module:factory"),
    ):
        code, out, err = run(capsys, folder, TEXT)
        assert (code, out, err.count("\n")) == (2, "", 1), (folder, out, err)
        assert message in err
    assert run(capsys, model, "")[2] == "overt: the text has no tokens: give one that is not empty\n"


def test_tokens_that_a_model_has_no_room_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "b": 9}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="a").save_pretrained(tmp_path)
    config = transformers.GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, n_positions=4)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    assert "it knows 5 tokens, and the tokenizer gives token 9: " in run(capsys, tmp_path, "a b")[2]
    message = "it has 4 positions, and the text with what is to be written 6 tokens: shorten it"
    assert message in run(capsys, tmp_path, "a a a a a a")[2]


def test_nothing_that_attends_is_one_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, model, TEXT, "--layers", "nothing")
    assert code == 2
    assert "layers= chose none of model.layers.0.self_attn" in err


def test_equal_words_are_told_apart(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, model, "the the the the the the of")[1]
    looked = [line for line in out.splitlines() if re.match(r"  model\.layers.* head \d:", line)]
    assert len(looked) == 8
    for line in looked:
        keys = re.findall(r"(\S+)@(\d+) (\d+)%", line)
        assert len({place for _, place, _ in keys}) == len(keys) > 0
        assert all(word == ("of" if place == "6" else "the") for word, place, _ in keys)
        assert all(int(share) for _, _, share in keys)


def test_an_encoder_and_a_decoder_end_at_their_own_tokens(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = save(tmp_path / "t5", "T5", "ForConditionalGeneration")
    last = json.loads(run(capsys, folder, "the capital of", "--generate", 4, "--json")[1])["last"]
    found = {entry["name"].partition(".")[0]: entry["query"] for entry in last}
    assert found["encoder"] == {"query": 2, "token": "of"}
    assert found["decoder"]["query"] == 3
    assert re.search(r"encoder\S* head \d, of@2:", run(capsys, folder, "the capital of", "--generate", 4)[1])
    # Who does not say how much it is to write gets a sentence.
    assert len(json.loads(run(capsys, folder, "the capital of", "--json")[1])["written"].split()) > 4


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_package_that_is_missing_is_one_line(package: str, model: Path) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from overt.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, "record", str(model), TEXT], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert package in done.stderr
