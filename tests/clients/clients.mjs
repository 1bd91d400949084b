// The clients that come from npm. One process for all: a line of JSON in ({client, scenario, question, url}), a line of JSON out
// ({text, told, sources, outcome, error, ...}). In the scenario `stop` a client is stopped the way its users stop it, at its first text.
import { createInterface } from 'node:readline'
import OpenAI from 'openai'
import { AbstractChat, DefaultChatTransport, streamText } from 'ai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { EventSource } from 'eventsource'

// fetch-event-source is made for browsers: it takes its timers and its fetch from `window`, and asks `document` whether it is seen.
globalThis.window = { setTimeout, clearTimeout, fetch }
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} }
const { fetchEventSource } = await import('@microsoft/fetch-event-source')

const MODEL = 'gateway'
const nothing = () => ({ text: '', told: [], sources: [], outcome: 'open', error: null })

function takeChunk(seen, chunk) {
  seen.text += chunk.choices[0]?.delta?.content ?? ''
  if (chunk.event?.type === 'status') seen.told.push(chunk.event.data.description)
  if (chunk.event?.type === 'source') seen.sources.push(chunk.event.data.source.name)
  if (chunk.choices[0]?.finish_reason) seen.finish = chunk.choices[0].finish_reason
  if (chunk.gateway) seen.path = chunk.gateway.path
}

async function openai({ url, question, scenario }) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 })
  const seen = nothing()
  const stream = await client.chat.completions.create({
    model: MODEL,
    messages: [{ role: 'user', content: question }],
    stream: true,
  })
  for await (const chunk of stream) {
    takeChunk(seen, chunk)
    if (scenario === 'stop' && seen.text) {
      stream.controller.abort()
      return { ...seen, outcome: 'stopped' }
    }
  }
  return { ...seen, outcome: 'finished' }
}

async function openaiHelper({ url, question, scenario }) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 })
  const seen = nothing()
  const runner = client.chat.completions.stream({ model: MODEL, messages: [{ role: 'user', content: question }] })
  runner.on('chunk', (chunk) => {
    takeChunk(seen, chunk)
    if (scenario === 'stop' && seen.text) runner.abort()
  })
  try {
    const completion = await runner.finalChatCompletion()
    const { content } = completion.choices[0].message
    if (content !== seen.text) throw new Error(`put together ${content} from ${seen.text}`)
    return { ...seen, outcome: 'finished' }
  } catch (error) {
    if (runner.aborted) return { ...seen, outcome: 'stopped' }
    return { ...seen, outcome: 'failed', error: error.message }
  }
}

async function aiStreamText({ url, question, scenario }) {
  const provider = createOpenAICompatible({ name: 'gateway', baseURL: `${url}/v1`, apiKey: 'any', includeUsage: true })
  const seen = nothing()
  const stop = new AbortController()
  const result = streamText({
    model: provider(MODEL),
    prompt: question,
    maxRetries: 0,
    abortSignal: stop.signal,
    onError: () => {},
  })
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta') seen.text += part.text
    if (part.type === 'error') return { ...seen, outcome: 'failed', error: part.error?.message ?? String(part.error) }
    if (part.type === 'abort') return { ...seen, outcome: 'stopped' }
    if (part.type === 'finish') Object.assign(seen, { finish: part.finishReason, tokens: part.totalUsage.outputTokens })
    if (scenario === 'stop' && seen.text) stop.abort()
  }
  return { ...seen, outcome: seen.finish ? 'finished' : 'open' }
}

// What `useChat` keeps, without React: its messages and its status.
class State {
  status = 'ready'
  error = undefined
  messages = []
  told = []
  pushMessage = (message) => (this.messages = [...this.messages, message])
  popMessage = () => (this.messages = this.messages.slice(0, -1))
  replaceMessage = (at, message) => {
    this.messages = this.messages.with(at, structuredClone(message))
    const status = message.parts.find((part) => part.type === 'data-status')
    if (status && this.told.at(-1) !== status.data.description) this.told.push(status.data.description)
  }
  snapshot = (value) => structuredClone(value)
}

class Chat extends AbstractChat {}

async function uiChat({ url, question, scenario }) {
  const seen = nothing()
  const state = new State()
  const chat = new Chat({
    id: 'chat-1',
    state,
    generateId: () => crypto.randomUUID(),
    transport: new DefaultChatTransport({ api: `${url}/api/chat` }),
    onFinish: ({ isAbort, isError, finishReason }) => {
      seen.outcome = isAbort ? 'stopped' : isError ? 'failed' : 'finished'
      seen.finish = finishReason
    },
    onError: (error) => (seen.error = error.message),
  })
  const answer = () => state.messages.find((message) => message.role === 'assistant')
  const text = () => (answer()?.parts ?? []).filter((part) => part.type === 'text').map((part) => part.text).join('')
  const sent = chat.sendMessage({ text: question })
  if (scenario === 'stop') {
    while (!text()) await new Promise((resolve) => setTimeout(resolve, 5))
    await chat.stop()
  }
  await sent
  const parts = answer()?.parts ?? []
  return {
    ...seen,
    text: text(),
    told: state.told,
    sources: parts.filter((part) => part.type.startsWith('source-')).map((part) => part.title),
    statuses: parts.filter((part) => part.type === 'data-status').length,
    refusal: parts.find((part) => part.type === 'data-refusal')?.data ?? null,
    citations: parts.find((part) => part.type === 'data-citations')?.data ?? [],
    path: answer()?.metadata?.path,
    timings: answer()?.metadata?.timings_ms,
  }
}

function takeEvent(seen, name, data) {
  if (name === 'token') seen.text += data.text
  if (name === 'status') seen.told.push(data.stage)
  if (name === 'retry') seen.told.push(`searching again: ${data.query}`)
  if (name === 'sources') seen.sources = data.passages.map((passage) => passage.title)
  if (name === 'refusal') seen.text += data.message
  if (name === 'failed') seen.error = data.message
  if (name === 'done') Object.assign(seen, { path: data.path, outcome: seen.error ? 'failed' : 'finished' })
}

const NAMES = ['started', 'status', 'retry', 'sources', 'token', 'citation', 'refusal', 'verification', 'failed', 'done']
const post = (question) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
  body: JSON.stringify({ question }),
})

function eventSource({ url, question, scenario }) {
  const seen = nothing()
  let requests = 0
  return new Promise((resolve, reject) => {
    const source = new EventSource(`${url}/v1/answers`, {
      fetch: (input, init) => {
        requests += 1
        return fetch(input, { ...init, ...post(question) })
      },
    })
    const end = (result) => {
      source.close()
      resolve({ ...result, requests })
    }
    source.onerror = (error) => reject(new Error(`connection error: ${error.message}`))
    for (const name of NAMES) {
      source.addEventListener(name, (event) => {
        takeEvent(seen, name, JSON.parse(event.data))
        if (name === 'done') end(seen)
        else if (scenario === 'stop' && seen.text) end({ ...seen, outcome: 'stopped' })
      })
    }
  })
}

async function fetchEvents({ url, question, scenario }) {
  const seen = nothing()
  const stop = new AbortController()
  let requests = 0
  await fetchEventSource(`${url}/v1/answers`, {
    ...post(question),
    signal: stop.signal,
    openWhenHidden: true,
    fetch: (...request) => {
      requests += 1
      return fetch(...request)
    },
    onmessage: (event) => {
      if (event.event) takeEvent(seen, event.event, JSON.parse(event.data))
      if (scenario === 'stop' && seen.text) stop.abort()
    },
    onerror: (error) => {
      throw error
    },
  })
  return { ...seen, outcome: stop.signal.aborted ? 'stopped' : seen.outcome, requests }
}

const CLIENTS = {
  openai,
  'openai helper': openaiHelper,
  'ai streamText': aiStreamText,
  'ai useChat': uiChat,
  eventsource: eventSource,
  'fetch-event-source': fetchEvents,
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  let seen
  try {
    seen = await CLIENTS[asked.client](asked)
  } catch (error) {
    seen = { ...nothing(), outcome: 'failed', error: error.message }
  }
  process.stdout.write(`${JSON.stringify(seen)}\n`)
}
