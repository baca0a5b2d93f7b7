"""Reads a folder of event files with TensorBoard itself and prints it as JSON: scalars and HParams of every run.

python3 tests/cli/read_board.py FOLDER, under a Python that has the package tensorboard."""
import json
import sys

from google.protobuf import json_format
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import plugin_data_pb2

multiplexer = EventMultiplexer({}, size_guidance={"scalars": 0}).AddRunsFromDirectory(sys.argv[1])
multiplexer.Reload()
runs = {}
for name in multiplexer.Runs():
    accumulator = multiplexer.GetAccumulator(name)
    scalars = {tag: [[event.step, event.value] for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    try:
        content = accumulator.PluginTagToContent("hparams")
    except KeyError:
        content = {}
    hparams = {tag: json_format.MessageToDict(plugin_data_pb2.HParamsPluginData.FromString(data)) for tag, data in content.items()}
    runs[name] = {"scalars": scalars, "hparams": hparams}
json.dump(runs, sys.stdout)
