"""Language models as policies: `llm:MODEL,url=…`."""
