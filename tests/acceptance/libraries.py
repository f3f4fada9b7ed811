"""Plugins that tests build, as their authors would by hand."""
import subprocess

from program import ROOT

PLUGINS = ROOT / "tests/acceptance/plugins"
FLAGS = {"g++": ["-std=c++17", f"-I{PLUGINS}"], "gcc": ["-std=c11"]}


def build(source, library, *flags, compiler="g++"):
    subprocess.run([compiler, *FLAGS[compiler], "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{ROOT}/sdk/include",
                    *flags, source, "-o", library], check=True)
    return library
