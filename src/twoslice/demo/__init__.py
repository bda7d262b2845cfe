"""The demo: phantoms made up from nothing, and the whole path run over them, stage by stage.
Phantoms are for learning the tool and for tests; no figure measured on them says how a real organ
would come out. Stages are called here as a user would call them, never changed.
"""
