import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import {
  Conversion,
  ConvertRequest,
  Rule,
  Script,
  ScriptRequest,
  VerifyCheck,
  VerifyEnd,
  VerifyRequest
} from './conversion';

/** The server's part of the extension. */
export class HvdApi {
  constructor(readonly settings: ServerConnection.ISettings) {}

  async convert(request: ConvertRequest): Promise<Conversion> {
    return (await this._request('convert', request)).json();
  }

  /** A notebook as a script that plain Python runs. */
  async script(request: ScriptRequest): Promise<string> {
    const answer: Script = await (await this._request('script', request)).json();
    return answer.script;
  }

  /** The rules; they are asked for once. */
  rules(): Promise<Rule[]> {
    this._rules ??= this._request('rules')
      .then(response => response.json() as Promise<Rule[]>)
      .catch(error => {
        this._rules = undefined;
        throw error;
      });
    return this._rules;
  }

  /** The events of a verification as they come; an aborted signal cancels it on the server. */
  async *verify(
    request: VerifyRequest,
    signal: AbortSignal
  ): AsyncGenerator<VerifyCheck | VerifyEnd> {
    const response = await this._request('verify', request, signal);
    for await (const line of lines(response.body!)) {
      yield JSON.parse(line);
    }
  }

  private async _request(
    route: string,
    body?: object,
    signal?: AbortSignal
  ): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, 'jupyter-hvd', route);
    const init: RequestInit = body
      ? { method: 'POST', body: JSON.stringify(body), signal }
      : {};
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch (error) {
      signal?.throwIfAborted();
      throw new ServerConnection.NetworkError(error as TypeError);
    }
    if (!response.ok) {
      throw await ServerConnection.ResponseError.create(response);
    }
    return response;
  }

  private _rules?: Promise<Rule[]>;
}

async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (rest + decoder.decode(value, { stream: !done })).split('\n');
    rest = done ? '' : parts.pop()!;
    yield* parts.filter(part => part.trim());
    if (done) {
      return;
    }
  }
}
