"""The server for coding agents: what the linter, the language server and ``prove`` know, as tools of the Model Context
Protocol."""
