import { Kernel } from '@jupyterlab/services';

import { ModelSize } from './conversion';

/**
 * A Python expression for the trainable weights of the Keras models in the user's namespace.
 *
 * It imports nothing, names nothing and touches no attribute of anything but Keras models.
 */
const WEIGHTS = `[
  (name, [(list(w.shape), getattr(w.dtype, "name", str(w.dtype))) for w in model.trainable_weights])
  for name, model in list(globals().items())
  if not name.startswith("_")
  and any(c.__name__ == "Model" and "keras" in c.__module__ for c in type(model).__mro__)
  and model.built
]`.replace(/\n\s*/g, ' ');

type Weights = [name: string, weights: [shape: number[], dtype: string][]][];

/** What lies between the ranks of a kernel, or why that is not known: see `session.network.Network`. */
export type Measured =
  | { ranks: number; bandwidth: number; latency: number; error: number }
  | { message: string };

const NETWORK =
  '__import__("jupyter_hvd.magics.distribute", fromlist=["measured"]).measured(get_ipython())';

/**
 * Measure bandwidth and latency between the ranks that live in a kernel; null where it cannot be asked.
 */
export async function networkInKernel(
  kernel: Kernel.IKernelConnection | null | undefined
): Promise<Measured | null> {
  const text = await evaluated(kernel, NETWORK);
  return text === null ? null : JSON.parse(text);
}

/** What a kernel holds of a training: its models, and how many examples it is on. */
export interface IHeld {
  models: ModelSize[];
  rows: number | null;
}

/**
 * The sizes of the models that a kernel holds, and the length of an array.
 *
 * Nothing is asked of a kernel that is busy or speaks another language.
 */
export async function heldByKernel(
  kernel: Kernel.IKernelConnection | null | undefined,
  array: string | null
): Promise<IHeld> {
  const length = array
    ? `(*getattr(globals().get(${JSON.stringify(array)}), "shape", ()), None)[0]`
    : 'None';
  const text = await evaluated(
    kernel,
    `__import__("json").dumps([${WEIGHTS}, ${length}])`
  );
  return text === null ? { models: [], rows: null } : readHeld(text);
}

/** A text that an idle kernel of Python works out; null where there is none. */
async function evaluated(
  kernel: Kernel.IKernelConnection | null | undefined,
  expression: string
): Promise<string | null> {
  if (kernel?.status !== 'idle' || (await kernel.info).language_info.name !== 'python') {
    return null;
  }
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { text: expression }
  });
  const { content } = await future.done;
  return content.status === 'ok' ? readText(content.user_expressions.text) : null;
}

/** The text in a kernel's answer, which is its `repr`. */
export function readText(answer: unknown): string | null {
  const data = (answer as { data?: Record<string, string> } | undefined)?.data;
  const text = data?.['text/plain'];
  return text ? text.slice(1, -1).replace(/\\(['\\])/g, '$1') : null;
}

/** What the kernel's answer says. */
export function readHeld(text: string): IHeld {
  const [weights, rows]: [Weights, number | null] = JSON.parse(text);
  const models = weights.map(([name, arrays]) => {
    const counts = arrays.map(([shape]) => shape.reduce((a, b) => a * b, 1));
    const bytes = arrays.map(([, dtype], i) => counts[i] * bytesOf(dtype));
    return { name, parameters: sum(counts), bytes: sum(bytes) };
  });
  return { models, rows };
}

function bytesOf(dtype: string): number {
  const bits = Number(/\d+$/.exec(dtype)?.[0]);
  return bits ? bits / 8 : 4;
}

function sum(numbers: number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}
