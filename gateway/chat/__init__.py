"""The chat clients' routes: OpenAI's completions, the AI SDK's UI stream, and the profiles that they choose from."""
