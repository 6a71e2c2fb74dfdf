"""llama.cpp's own server tests, unmodified, against `anemone serve` in their external mode. On demand:
    llama_cpp.py path/to/anemone path/to/llama.cpp path/to/tiny-model.gguf [path/to/all-MiniLM-L6-v2]
llama.cpp's sources are inside the sdist of llama-cpp-python (PyPI): vendor/llama.cpp. Any model does:
examples/demo_model/demo.gguf is quick. Cases that pass with it (llama-cpp-python 0.3.36): 67, and 30 with the vectors of
MiniLM.
The Python that runs this needs pytest, openai, requests, aiohttp, huggingface_hub, wget, prometheus_client.

Left out are only cases of three kinds, each with its reason below, and whole files of what anemone does not have.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from server import Server

TEXT = "expects the text or token count of their own model and sampler"
OPTION = "starts the server with other options, which the external mode cannot"
THEIRS = "a feature of llama.cpp alone"

FILES = ["test_basic.py", "test_chat_completion.py", "test_completion.py", "test_tokenize.py", "test_security.py",
         "test_ctx_shift.py", "test_ignore_eos.py", "test_metrics.py", "test_compat_oai_responses.py"]

# Of the folder; a new file that stands in neither list is an error.
FILES_LEFT_OUT = {
    "test_compat_anthropic.py": "/v1/messages: not there yet",
    "test_compat_gcp.py": THEIRS + ": Google's /predict, behind an option",
    "test_infill.py": THEIRS + ": text in the middle",
    "test_kv_keep_only_active.py": OPTION,
    "test_lora.py": THEIRS + ": adapters",
    "test_mcp_servers.py": THEIRS + ": tools that the server runs",
    "test_proxy.py": THEIRS + ": their router",
    "test_rerank.py": THEIRS + ": bundles do not rank",
    "test_router.py": THEIRS + ": models that a router downloads and starts",
    "test_sleep.py": OPTION,
    "test_slot_save.py": THEIRS + ": slots are saved by name; ours by --cache-dir, without a request",
    "test_speculative.py": OPTION + ": a draft model",
    "test_stream.py": THEIRS + ": streams that go on after a hang-up, through their router",
    "test_template.py": OPTION,
    "test_tool_call.py": OPTION + ": other models and templates",
    "test_tools_builtin.py": THEIRS + ": tools that the server runs",
    "test_vision_api.py": THEIRS + ": pictures",
}

EMBEDDING_LEFT_OUT = {
    "test_embedding_pooling_none": OPTION,  # a vector for each token
    "test_embedding_pooling_none_oai": OPTION,
    "test_embedding_multiple_with_fa": TEXT,  # 258 tokens; MiniLM takes 256
}

LEFT_OUT = {
    "test_server_multiple_addresses": OPTION,
    "test_server_props": TEXT,  # a file that ends in .gguf
    "test_server_slots": OPTION,
    "test_load_split_model": OPTION,
    "test_no_ui": OPTION,
    "test_server_model_aliases_and_tags": OPTION,
    "test_chat_completion[": TEXT,
    "test_chat_completion_cached_tokens": TEXT,
    "test_chat_completion_stream[": TEXT,
    "test_chat_completion_with_openai_library": TEXT,
    "test_chat_template": OPTION,
    "test_apply_chat_template": OPTION,
    "test_completion_with_response_format[response_format1": TEXT,
    "test_return_progress": OPTION,
    "test_completion[": TEXT,
    "test_completion_stream[": TEXT,
    "test_completion_with_openai_library": TEXT,
    "test_completion_stream_with_openai_library": TEXT,
    "test_different_result_different_seed": TEXT,  # of two seeds; a model with one sure answer gives it twice
    "test_n_probs": TEXT,  # of tokens above 0; a model may use that one
    "test_tokenize_with_bos": TEXT,  # their BOS is 1
    "test_ctx_shift_disabled_long_prompt": TEXT,  # a text of more than 256 of their tokens
    "test_json_prompt_mtm": THEIRS,
    "test_completion_parallel_slots[4": OPTION,
    "test_completion_unified": OPTION,
    "test_completion_response_fields": THEIRS,
    "test_completion_prompt_cache": TEXT,
    "test_access_static_assets_without_api_key": THEIRS,  # the files of their page
    "test_cors_origins": OPTION,
    "test_cors_proxy": THEIRS,
    "test_local_media_file": THEIRS,
    "test_ctx_shift_enabled": OPTION,
    "test_ctx_shift_disabled_short_prompt": TEXT,
    "test_metrics_disabled": OPTION,
    "test_metrics_prometheus_format": THEIRS,  # counters of their speculation
    "test_metrics_prompt_processed_and_cached": OPTION,  # counters of a server that just started
    "test_metrics_predicted_total_matches_requests": OPTION,
    "test_metrics_timings_on_prompt_progress": THEIRS,
    "test_metrics_embedding": OPTION,
    "test_responses_with_openai_library": TEXT,
    "test_responses_stream": TEXT,
}


def run_tests(folder, server, files, leave_out):
    left_out = [f"--deselect=unit/{f}::{name}" for f in files for name in leave_out]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *left_out,
               *(f"unit/{f}" for f in files)]
    return subprocess.run(command, cwd=folder, env={**os.environ, "DEBUG_EXTERNAL": "1", "PORT": str(server.port)}).returncode


def main():
    command, source, model = sys.argv[1:4]
    tests = pathlib.Path(source) / "tools/server/tests"
    unknown = {f.name for f in tests.glob("unit/test_*.py")} - {*FILES, *FILES_LEFT_OUT, "test_embedding.py"}
    if unknown:
        sys.exit(f"new files, neither run nor left out: {sorted(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        bundle = os.path.join(folder, "tinyllama-2")
        # Theirs has 512 positions for two slots: 256 for each.
        subprocess.run([command, "convert", model, "-o", bundle, "--quiet", "--context", "256", "--tokens", "1,32"], check=True)
        keys = pathlib.Path(folder) / "keys"
        keys.write_text("sk-this-is-the-secret-key\n")
        flags = ["--parallel", "2", "--seed", "42", "--max-new", "64", "--cors", "*"]
        with Server(command, [bundle], *flags) as server:
            first = run_tests(tests, server, [f for f in FILES if f != "test_security.py"], LEFT_OUT)
        with Server(command, [bundle], *flags, "--api-key-file", str(keys)) as server:
            second = run_tests(tests, server, ["test_security.py"], LEFT_OUT)
        third = 0
        if len(sys.argv) > 4:
            vectors = os.path.join(folder, "bert-bge-small")
            subprocess.run([command, "convert", sys.argv[4], "-o", vectors, "--quiet", "--tokens", "32,256"], check=True)
            with Server(command, [vectors]) as server:
                third = run_tests(tests, server, ["test_embedding.py"], EMBEDDING_LEFT_OUT)
    sys.exit(first or second or third)


main()
