fetch("/api/stock")
  .then((answer) => answer.json())
  .then((stock) => {
    document.getElementById("stock").textContent = JSON.stringify(stock);
  });
