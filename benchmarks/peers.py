"""The neighbours and the versions compared with; nothing is imported here, so that a session can read it first."""

PEERS = {"bertviz": "1.4.1", "circuitsvis": "1.43.3", "inspectus": "0.2.0", "attnview": "0.5.1"}
TRANSFORMER_LENS = "4.3.0"
