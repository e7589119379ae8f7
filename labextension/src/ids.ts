export namespace CommandIDs {
  export const convert = 'jupyter-hvd:convert';
  export const convertFile = 'jupyter-hvd:convert-file';
  export const apply = 'jupyter-hvd:apply';
  export const accept = 'jupyter-hvd:accept';
  export const distribute = 'jupyter-hvd:distribute';
  export const undistribute = 'jupyter-hvd:undistribute';
  export const runInTerminal = 'jupyter-hvd:run-in-terminal';
  export const runAll = 'jupyter-hvd:run-all';
  export const restartKernel = 'jupyter-hvd:restart-kernel';
  export const interruptKernel = 'jupyter-hvd:interrupt-kernel';
  export const saveNotebook = 'jupyter-hvd:save-notebook';
  export const undo = 'jupyter-hvd:undo';
  export const saveCopy = 'jupyter-hvd:save-copy';
  export const exportScript = 'jupyter-hvd:export-script';
  export const verify = 'jupyter-hvd:verify';
  export const cancelVerification = 'jupyter-hvd:cancel-verification';
  export const acceptAll = 'jupyter-hvd:accept-all';
  export const leaveAll = 'jupyter-hvd:leave-all';
  export const nextChange = 'jupyter-hvd:next-change';
  export const previousChange = 'jupyter-hvd:previous-change';
  export const toggleWrap = 'jupyter-hvd:toggle-wrap';
  export const refresh = 'jupyter-hvd:refresh';
  export const inspect = 'jupyter-hvd:inspect-gradient-cost';
  export const undoAccepted = 'jupyter-hvd:undo-accepted-advice';
  export const where = 'jupyter-hvd:where';
  export const showRule = 'jupyter-hvd:show-rule';
}
