import { Kernel, KernelMessage } from '@jupyterlab/services';

/** The answer of a kernel on its control channel: see `control_channel.py`. */
interface IAnswer {
  /** A heading, and a line for each worker. */
  lines: string[];
  /** Why there are none. */
  message: string;
}

/** Seconds after which a kernel that has not answered never will: it has not loaded this package. */
const PATIENCE = 8;

/**
 * Ask a kernel where its workers are; it answers while a cell runs.
 *
 * Null where the kernel does not know the question.
 */
export async function askWhere(
  kernel: Kernel.IKernelConnection
): Promise<IAnswer | null> {
  const request = {
    channel: 'control',
    content: {},
    header: {
      date: new Date().toISOString(),
      msg_id: crypto.randomUUID(),
      msg_type: 'hvd_where_request',
      session: kernel.clientId,
      username: kernel.username,
      version: '5.3'
    },
    metadata: {},
    parent_header: {}
  } as unknown as KernelMessage.IControlMessage<KernelMessage.ControlMessageType>;
  const future = kernel.sendControlMessage(request, true, true);
  const late = new Promise<null>(resolve =>
    setTimeout(() => resolve(null), PATIENCE * 1000)
  );
  const answer = await Promise.race([future.done, late]);
  future.dispose();
  return answer && (answer.content as unknown as IAnswer);
}
