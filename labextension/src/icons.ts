import { LabIcon } from '@jupyterlab/ui-components';

/** One program becomes many. */
const convertSvg = `
<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="M12 2a3 3 0 0 1 1 5.83V11h5a2 2 0 0 1 2 2v3.17a3 3 0 1
  1-2 0V13h-5v3.17a3 3 0 1 1-2 0V13H6v3.17a3 3 0 1 1-2 0V13a2 2 0 0 1 2-2h5V7.83A3 3 0 0 1 12 2z"/>
</svg>`;

export const convertIcon = new LabIcon({
  name: 'jupyter-hvd:convert',
  svgstr: convertSvg
});

/** Two curves over a size: one that grows, one that grows faster. */
const costSvg = `
<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <g class="jp-icon3-stroke" fill="none" stroke="#616161" stroke-width="2" stroke-linecap="round">
    <path d="M4 4v16h16"/>
    <path d="M7 16l12-4"/>
    <path d="M7 16q8-1 11-11"/>
  </g>
</svg>`;

export const costIcon = new LabIcon({
  name: 'jupyter-hvd:gradcost',
  svgstr: costSvg
});
