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

/**
 * The sizes of the models that a kernel holds.
 *
 * Nothing is asked of a kernel that is busy or speaks another language.
 */
export async function modelsInKernel(
  kernel: Kernel.IKernelConnection | null | undefined
): Promise<ModelSize[]> {
  if (kernel?.status !== 'idle' || (await kernel.info).language_info.name !== 'python') {
    return [];
  }
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { models: `__import__("json").dumps(${WEIGHTS})` }
  });
  const { content } = await future.done;
  const answer = content.status === 'ok' ? content.user_expressions.models : undefined;
  return readModels(answer);
}

/** The models in the kernel's answer, which is the `repr` of a JSON text. */
export function readModels(answer: unknown): ModelSize[] {
  const data = (answer as { data?: Record<string, string> } | undefined)?.data;
  const text = data?.['text/plain'];
  if (!text) {
    return [];
  }
  const weights: Weights = JSON.parse(text.slice(1, -1).replace(/\\(['\\])/g, '$1'));
  return weights.map(([name, arrays]) => {
    const counts = arrays.map(([shape]) => shape.reduce((a, b) => a * b, 1));
    const bytes = arrays.map(([, dtype], i) => counts[i] * bytesOf(dtype));
    return { name, parameters: sum(counts), bytes: sum(bytes) };
  });
}

function bytesOf(dtype: string): number {
  const bits = Number(/\d+$/.exec(dtype)?.[0]);
  return bits ? bits / 8 : 4;
}

function sum(numbers: number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}
