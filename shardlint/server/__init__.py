"""The language server: what ``shardlint`` finds, in every editor that speaks the protocol."""
