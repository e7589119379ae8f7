import './base.css';
import './gradcost.css';
import './workers.css';
