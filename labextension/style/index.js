import './base.css';
import './gradcost.css';
