import { Kernel, KernelMessage } from '@jupyterlab/services';

/** A worker as its kernel sees it: see `notebook/inspection.py`. */
export interface IWorker {
  rank: number;
  host: string;
  pid: number;
  device: string;
  /** Bytes. */
  memory: number;
  /** The line that runs, and what stands there, which is empty outside of the user's cells. */
  line: string;
  text: string;
  does: string;
  /** For how many seconds it has waited there. */
  seconds: number;
  lost: boolean;
}

/** Workers that have the same value of a variable. */
export interface IGroup {
  ranks: number[];
  text: string;
  /** Where the value first differs from the first group's, and by how much. */
  note: string;
}

export interface IVariable {
  name: string;
  groups: IGroup[];
}

/** The answer of a kernel on its control channel: see `control_channel.py`. */
export interface ILook {
  /** Why there are no workers. */
  message: string;
  ranks: IWorker[];
  /** The number of the cell that ran last. */
  cell?: number;
  running?: boolean;
  /** What it means that workers wait. */
  words?: string[];
  /** Of the worker that was asked for. */
  output?: string[];
  variables?: IVariable[];
  /** The workers that do not say what their variables are. */
  silent?: number[];
}

export interface IQuestion {
  /** Whose output is wanted. */
  rank: number | null;
  variables: boolean;
}

/** Seconds after which a kernel that has not answered never will: it has not loaded this package. */
const PATIENCE = 30;

/**
 * Ask a kernel what its workers do and have; it answers while a cell runs.
 *
 * Null where the kernel does not know the question.
 */
export async function lookAt(
  kernel: Kernel.IKernelConnection,
  question: IQuestion
): Promise<ILook | null> {
  const request = {
    channel: 'control',
    content: question,
    header: {
      date: new Date().toISOString(),
      msg_id: crypto.randomUUID(),
      msg_type: 'hvd_look_request',
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
  return answer && (answer.content as unknown as ILook);
}

/** The groups of a variable as one worker sees them: its own value, and how that stands to the others'. */
export function valueOn(variable: IVariable, rank: number): IGroup | undefined {
  return variable.groups.find(group => group.ranks.includes(rank));
}

export function isReplicated(variable: IVariable): boolean {
  return variable.groups.length === 1;
}
