"""Span and attribute names, in one table: OpenTelemetry's where it has one, `gateway.*` where it has none.

The GenAI names are written out because the `opentelemetry-semantic-conventions` package marks its copy as moved to another
repository (1.45: "deprecated"). Values never hold question, passage or answer text.
"""

from typing import Final

# Span names. `chat` and `retrieval` are followed by what they call; see the GenAI conventions.
INVOKE_AGENT: Final = "invoke_agent gateway"
ATTEMPT: Final = "attempt"
RETRIEVAL: Final = "retrieval"
STATEMENT: Final = "SELECT passage"  # operation and table, as the database conventions name spans
RERANK: Final = "rerank"
REWRITE: Final = "rewrite"
VERIFY: Final = "verify"
CHAT: Final = "chat"
FAILURE_PATH: Final = "failure_path"

# HTTP, URL and errors: https://opentelemetry.io/docs/specs/semconv/http/http-spans/
HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"
ERROR_TYPE: Final = "error.type"

# GenAI: https://github.com/open-telemetry/semantic-conventions-genai
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
DATA_SOURCE: Final = "gen_ai.data_source.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S: Final = "gen_ai.response.time_to_first_chunk"

# Databases: https://opentelemetry.io/docs/specs/semconv/database/database-spans/ (the statement's text is left out)
DB_SYSTEM: Final = "db.system.name"
DB_OPERATION: Final = "db.operation.name"
DB_COLLECTION: Final = "db.collection.name"

# Words, recorded only where GATEWAY_RECORD_TEXT says so.
QUESTION_TEXT: Final = "gateway.text.question"
QUERY_TEXT: Final = "gateway.text.query"
MISSING_TEXT: Final = "gateway.text.missing"

# Ours, of the whole answer.
ANSWER_ID: Final = "gateway.answer_id"
OUTCOME: Final = "gateway.outcome"
PATH: Final = "gateway.path"
REASON: Final = "gateway.reason"
ATTEMPTS: Final = "gateway.attempts"
TTFT_DELIVERED_S: Final = "gateway.ttft_delivered_s"

# Ours, of an attempt and its parts.
ATTEMPT_NUMBER: Final = "gateway.attempt"
CORRECTION: Final = "gateway.correction"
STRATEGY: Final = "gateway.strategy"  # the correction; of attempt 1 the mode of its search
NEED: Final = "gateway.search.need"  # why attempt 1 searches in its mode
PASSAGES: Final = "gateway.passages"
DUPLICATES: Final = "gateway.evidence.duplicates"
OUTDATED: Final = "gateway.evidence.outdated"
OUTRANKED: Final = "gateway.evidence.outranked"
DISAGREEMENTS: Final = "gateway.evidence.conflicts"
RETRIEVAL_S: Final = "gateway.retrieval_s"
GRADE_S: Final = "gateway.grade_s"
SEARCH_MODE: Final = "gateway.search.mode"
SEARCH_K: Final = "gateway.search.k"
SEARCH_FILTERS: Final = "gateway.search.filters"
TOP_SCORE: Final = "gateway.search.top_score"
LAST_SCORE: Final = "gateway.search.last_score"
SCORE_MARGIN: Final = "gateway.search.score_margin"
CANDIDATES: Final = "gateway.rerank.candidates"
VERDICT: Final = "gateway.verdict"
RELEVANT: Final = "gateway.relevant"
MISSING: Final = "gateway.missing.present"
CONFLICTS: Final = "gateway.conflicts.present"
P_SUFFICIENT: Final = "gateway.p_sufficient"
GRADER: Final = "gateway.grader"
GRADER_FAULT: Final = "gateway.grader.fault"
SPECULATE: Final = "gateway.speculate.decision"
SPECULATE_P: Final = "gateway.speculate.p_sufficient"
SPECULATE_DELAY_S: Final = "gateway.speculate.delay_s"
SPECULATE_HOLD: Final = "gateway.speculate.hold_tokens"
SPECULATE_GRADE_S: Final = "gateway.speculate.grade_s"
SPECULATE_TEXT_S: Final = "gateway.speculate.first_text_s"
SPECULATE_LEAST_P: Final = "gateway.speculate.least_p"
SPECULATE_AHEAD_P: Final = "gateway.speculate.ahead_p"
SPECULATE_AHEAD: Final = "gateway.speculate.looks_ahead"
HELD_BYTES: Final = "gateway.held_bytes"
DRAFT: Final = "gateway.draft"
SIMILARITY: Final = "gateway.query.similarity"
REWRITE_KIND: Final = "gateway.rewrite.kind"
REWRITE_USED: Final = "gateway.rewrite.used"
VERIFIER: Final = "gateway.verifier"
VERIFY_CALLS: Final = "gateway.verify.calls"
GROUNDED: Final = "gateway.grounded"
CLAIMS: Final = "gateway.claims"
UNSUPPORTED: Final = "gateway.claims.unsupported"
GENERATION_S: Final = "gateway.generation_s"
RELEASED_TOKENS: Final = "gateway.tokens.released"
STILL_BILLING: Final = "gateway.drafts.still_billing"
DRAFT_CLOSE_S: Final = "gateway.draft.close_s"
DISCARDED_TOKENS: Final = "gateway.draft.discarded_tokens"
USAGE_EXACT: Final = "gateway.usage.exact"
FOLDED_S: Final = "gateway.duration_s"  # of what is an event, because it was folded


class Outcome:
    """The values of `gateway.outcome`: every span has exactly one. Error status: FAILED, and TIMEOUT of a part's own limit."""

    OK: Final = "ok"  # a part (retrieval, grade, rerank) or a request without an answer that did what it was for
    RELEASED: Final = "released"
    DISCARDED: Final = "discarded"
    REFUSED: Final = "refused"
    REJECTED: Final = "rejected"  # a request turned away with a 4xx before any answer began
    FAILED: Final = "failed"
    CLIENT_GONE: Final = "client_gone"
    TIMEOUT: Final = "timeout"
    ALL: Final = frozenset({OK, RELEASED, DISCARDED, REFUSED, REJECTED, FAILED, CLIENT_GONE, TIMEOUT})
